"""The Databus agent: one per host, between applications and topics. It accepts records, spools them and produces them.

Data flows from a door (`doors`) through the rules of a channel (`intake`) into a spool on disk (`spool`), and from there by
a lane (`lanes`) into the topics.
"""
