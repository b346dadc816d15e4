"""What the machine, the nodes, HDFS and ZooKeeper are like now. Each probe is bounded in time."""
