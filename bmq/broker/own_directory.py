"""The directory of one leader epoch, and the look that proves it is still the one we claimed (rules 7 and 20). Pure."""

from __future__ import annotations

from bmq.log.store import FencedWriter, SegmentStore


class OwnDirectory:
    """`file_id`: of the directory that holds our owner file; None until the claim has ended."""

    def __init__(self, store: SegmentStore, path: str) -> None:
        self.path = path
        self.file_id: int | None = None
        self._store = store

    async def verify_claim(self) -> None:
        """Raises FencedWriter unless our directory is there, by a look that began now.

        A path alone proves nothing: a mkdirs of ours that timed out may be carried out after a newer owner has renamed
        our directory away. The new directory has another file id. A plain read proves nothing either where several
        servers may answer: a replaced one that does not know it shows the directory as it was (rule 15).
        """
        found = await self._store.prove(self.path)
        if found is None:
            raise FencedWriter(f"{self.path} is gone")
        if found.file_id != self.file_id:
            raise FencedWriter(f"{self.path} is not the directory that was claimed")
