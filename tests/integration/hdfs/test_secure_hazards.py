"""Takeovers, mending and syncing at the worst moments again, with privacy, and where DataNodes' own protocol is not ours."""

from __future__ import annotations

import pytest

from tests.integration.hdfs.secure_hazards import secure_hazards

pytestmark = [pytest.mark.campaign("hdfs-faults"), pytest.mark.safety, pytest.mark.timeout(120)]

globals().update(secure_hazards("privacy", "authorization"))
