"""Takeovers, mending and syncing at the worst moments again, with logins alone and with signed data."""

from __future__ import annotations

import pytest

from tests.integration.hdfs.secure_hazards import secure_hazards

pytestmark = [pytest.mark.campaign("hdfs-secure"), pytest.mark.safety, pytest.mark.timeout(120)]

globals().update(secure_hazards("authentication", "integrity"))
