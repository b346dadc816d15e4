"""Logging in to a server by Kerberos, by MIT's library (the package gssapi, extra `kerberos`): HDFS and ZooKeeper."""
