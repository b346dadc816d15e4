"""What a start waits for, and what ends it: damage does not mend itself (rule 25)."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from bmq.broker.partition_offline import PartitionOffline
from bmq.log.damage import StateDamaged, file_damage
from bmq.log.store import StorageUnavailable
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.server.start_retry import StartRetry, StoreNotReady, is_log_silent
from tests.unit.broker.world import virtual

pytestmark = pytest.mark.unit

DAMAGE = file_damage("topics/m/0", 3, "snapshot.00000001", "is missing")


@pytest.mark.parametrize("error", [StateDamaged(DAMAGE), PartitionOffline("a manifest is damaged", DAMAGE)])
def test_damage_ends_a_start_at_once(error: BmqError) -> None:
    tries = 0

    async def attempt() -> None:
        nonlocal tries
        tries += 1
        raise error

    async def main() -> None:
        with pytest.raises(type(error)) as raised:
            await StartRetry(60_000).until_done(attempt, may_pass=is_log_silent)
        assert raised.value is error

    virtual(main)
    assert tries == 1


@pytest.mark.parametrize("error", [StorageUnavailable("away"), KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "away")])
def test_a_store_that_is_away_is_waited_for(error: BmqError) -> None:
    tries = 0

    async def attempt() -> None:
        nonlocal tries
        tries += 1
        raise error

    async def main() -> None:
        with pytest.raises(StoreNotReady, match="not ready within 10 s: away"):
            await StartRetry(10_000).until_done(attempt, may_pass=is_log_silent)

    virtual(main)
    assert tries > 3


def test_what_is_waited_for_is_logged_when_it_changes_and_once_a_minute() -> None:
    tries = 0

    async def attempt() -> None:
        nonlocal tries
        tries += 1
        raise StorageUnavailable("no KDC answers" if tries <= 200 else "safe mode")

    async def main() -> None:
        with pytest.raises(StoreNotReady, match="safe mode"):
            await StartRetry(660_000).until_done(attempt, may_pass=is_log_silent)

    with capture_logs() as logs:
        virtual(main)
    assert tries > 200
    assert [line["reason"] for line in logs] == ["no KDC answers"] * 10 + ["safe mode"]
