"""Whether an incarnation of a node has ended, as far as the metadata says. Pure."""

from __future__ import annotations

from bmq.metadata.image import MetadataImage


def has_ended(image: MetadataImage, node_id: int, node_epoch: int) -> bool:
    """`node_epoch`: of the incarnation (Node.epoch). False for one that the image does not know yet."""
    live = image.nodes.get(node_id)
    if live is not None:
        return live.epoch > node_epoch
    fenced = image.fenced_nodes.get(node_id)
    return fenced is not None and fenced.epoch >= node_epoch >= 0
