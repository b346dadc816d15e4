"""bmq.hdfs against real HDFS."""
