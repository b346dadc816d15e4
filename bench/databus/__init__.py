"""The Databus agent beside a producer in each process."""
