"""An issuer of bearer tokens, for tests: its keys, and tokens of any claims."""

from __future__ import annotations

import json
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

ISSUER, AUDIENCE = "https://issuer.example", "bmq"


class Issuer:
    """One RSA key `r1` and one EC key `e1`; `rotate` makes others. `now_s`: of its clock."""

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s
        self.generation = 0
        self.rotate()

    def rotate(self) -> None:
        self.generation += 1
        self.rsa = rsa.generate_private_key(65537, 2048)
        self.ec = ec.generate_private_key(ec.SECP256R1())

    def key_set(self) -> bytes:
        keys = [
            {**RSAAlgorithm.to_jwk(self.rsa.public_key(), as_dict=True), "kid": f"r{self.generation}", "use": "sig"},
            {**ECAlgorithm.to_jwk(self.ec.public_key(), as_dict=True), "kid": f"e{self.generation}"},
        ]
        return json.dumps({"keys": keys}).encode()

    def public_pem(self) -> bytes:
        return self.rsa.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def claims(self, **changed: Any) -> dict[str, Any]:
        """None takes a claim away."""
        now_s = int(self.now_s)
        usual = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": now_s, "exp": now_s + 300}
        return {name: value for name, value in {**usual, **changed}.items() if value is not None}

    def token(self, algorithm: str = "RS256", headers: dict[str, Any] | None = None, **claims: Any) -> str:
        key: Any = self.ec if algorithm.startswith("ES") else self.rsa
        kid = f"{'e' if algorithm.startswith('ES') else 'r'}{self.generation}"
        return jwt.encode(self.claims(**claims), key, algorithm, headers={"kid": kid, **(headers or {})})
