"""The public keys of a JSON Web Key Set (RFC 7517), and the check of a token's signature with one of them. Decisions only.

Only signatures with asymmetric keys are accepted. An algorithm has to fit the type of its key, so that no public key is
taken for the secret of an HMAC.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from bmq.security.bearer import BearerRefused

if TYPE_CHECKING:
    from jwt.types import Options

KEYS_MAX: Final = 100
KID_CHARS_MAX: Final = 1_000
TOKEN_CHARS_MAX: Final = 16_384
_RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_FITTING: Final[Mapping[str, frozenset[str]]] = {
    "RSA": _RSA,
    "EC": frozenset({"ES256", "ES384", "ES512"}),
    "OKP": frozenset({"EdDSA"}),
}


class WrongKeySet(ValueError):
    """The text is not a set of keys that tokens can be checked by."""


class UnknownKey(Exception):
    """The set has no key of the token's `kid`."""


class KeySet:
    """Keys by their `kid`; `read` makes one."""

    def __init__(self, keys: Mapping[str, Mapping[str, Any]]) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    @classmethod
    def read(cls, data: bytes) -> KeySet:
        """Keys of other kinds and uses are left out. Raises WrongKeySet when none is left."""
        try:
            listed = json.loads(data)["keys"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise WrongKeySet('it is not JSON of the form {"keys": […]}') from None
        if not isinstance(listed, list) or len(listed) > KEYS_MAX:
            raise WrongKeySet(f"it has more than {KEYS_MAX} keys, or no list of them")
        keys = {}
        for number, one in enumerate(listed):
            if (
                isinstance(one, dict)
                and isinstance(one.get("kty"), str)
                and one["kty"] in _FITTING
                and one.get("use", "sig") == "sig"
                and "d" not in one
            ):
                kid = one.get("kid")
                keys[kid if isinstance(kid, str) else f"\0{number}"] = one
        if not keys:
            raise WrongKeySet("it has no public key for signatures (RSA, EC or OKP)")
        return cls(keys)

    def claims_of(self, token: str) -> Mapping[str, Any]:
        """The claims of a token that one of the keys signed. Raises BearerRefused, UnknownKey."""
        import jwt

        if len(token) > TOKEN_CHARS_MAX:
            raise BearerRefused(f"the token has more than {TOKEN_CHARS_MAX} characters")
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise BearerRefused("it is not a signed JSON Web Token") from None
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or not any(algorithm in fitting for fitting in _FITTING.values()):
            raise BearerRefused("the token is not signed by an algorithm with public keys")
        if "crit" in header:
            raise BearerRefused("the token has critical extensions, which bmq does not know")
        key = self._key(header.get("kid"), algorithm)
        checked_elsewhere: Options = {
            "verify_signature": True,
            "verify_exp": False,
            "verify_nbf": False,
            "verify_iat": False,
            "verify_aud": False,
            "verify_iss": False,
            "verify_sub": False,
            "verify_jti": False,
        }
        try:
            checked = jwt.decode(
                token, jwt.PyJWK(dict(key), algorithm=algorithm), algorithms=[algorithm], options=checked_elsewhere
            )
        except jwt.InvalidSignatureError:
            raise BearerRefused("the token's signature is wrong") from None
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise BearerRefused(f"the token cannot be checked: {type(error).__name__}") from None
        return checked

    def _key(self, kid: object, algorithm: str) -> Mapping[str, Any]:
        if kid is None:
            fitting = [one for one in self._keys.values() if algorithm in _FITTING[one["kty"]]]
            if len(fitting) != 1:
                raise BearerRefused("the token does not say which key signed it")
            return fitting[0]
        if not isinstance(kid, str) or len(kid) > KID_CHARS_MAX:
            raise BearerRefused("the token's kid is not the name of a key")
        key = self._keys.get(kid)
        if key is None:
            raise UnknownKey(kid)
        if algorithm not in _FITTING[key["kty"]] or key.get("alg", algorithm) != algorithm:
            raise BearerRefused("the token's algorithm is not that of its key")
        return key
