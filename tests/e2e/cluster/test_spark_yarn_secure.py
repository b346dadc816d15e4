"""Spark jobs on a kerberized YARN and HDFS: the driver has a keytab, executors the tokens that the driver got.

The tests are those of the open cluster.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.e2e.cluster import test_spark_yarn
from tests.e2e.cluster.test_spark_yarn import World, spark_world
from tests.support.same_tests import same_tests
from tests.support.secure_hdfs import Protection, secure_hdfs
from tests.support.yarn import YarnCluster, YarnKerberos

pytestmark = [pytest.mark.campaign("spark-cluster"), pytest.mark.bmq_only, pytest.mark.timeout(700)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("spark-yarn-secure")
    protection = Protection(rpc="integrity", data="privacy", is_aes=True)
    with secure_hdfs(directory / "hdfs", protection, datanodes=2) as secure:
        yarn = YarnCluster(directory / "yarn", secure.cluster, kerberos=YarnKerberos.of(secure))
        settings = {
            "spark.kerberos.principal": secure.principal,
            "spark.kerberos.keytab": str(secure.keytab),
            # As on nodes of Hadoop.
            "spark.executorEnv.HADOOP_CONF_DIR": str(yarn.configuration),
        }
        # For the driver's Python; executors have no keytab.
        environment = {
            "KRB5_CONFIG": os.environ["KRB5_CONFIG"],
            "KRB5_CLIENT_KTNAME": str(secure.keytab),
            "KRB5CCNAME": f"FILE:{directory / 'tickets'}",
        }
        with spark_world(directory, secure.cluster, yarn, settings, environment) as found:
            yield found


globals().update(same_tests(test_spark_yarn, lambda fixtures: "world" in fixtures))
