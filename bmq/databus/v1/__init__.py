"""The agent's messages and service by gRPC, version 1: databus.proto, which the build compiles."""
