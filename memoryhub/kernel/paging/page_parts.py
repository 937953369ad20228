"""Pages, as a part of the kernel: which command and which event goes where. Pure."""

from __future__ import annotations

from memoryhub.kernel.paging import faults, page_table, residency, working_set
from memoryhub.kernel.paging import page_commands as commands
from memoryhub.kernel.parts import Part
from memoryhub.kernel.state import page_events as events

PART = Part(
    commands={
        commands.CreatePages: page_table.create_pages,
        commands.UpdatePage: page_table.update_page,
        commands.DeletePage: page_table.delete_page,
        commands.MapPage: working_set.map_page,
        commands.EvictPage: working_set.evict_page,
        commands.PinPage: working_set.pin_page,
        commands.UnpinPage: working_set.unpin_page,
        commands.ReferencePages: working_set.reference_pages,
        commands.FaultPage: faults.fault_page,
    },
    upkeep={commands.WriteLevels: page_table.write_levels},
    events={
        events.PageCreated: residency.created,
        events.PageUpdated: residency.updated,
        events.PageCompressed: residency.compressed,
        events.PageMapped: residency.mapped,
        events.PageFaulted: residency.faulted,
        events.FaultRefused: residency.fault_refused,
        events.PageReferenced: residency.referenced,
        events.PageEvicted: residency.evicted,
        events.PagesEvicted: residency.apply_pages_evicted,
        events.PageLowered: residency.lowered,
        events.PagePinned: residency.pinned,
        events.PageUnpinned: residency.unpinned,
        events.PageDeleted: residency.deleted,
    },
)
