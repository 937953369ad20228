"""Routing of page commands and page events to their functions. Pure."""

from __future__ import annotations

from memoryhub.kernel.paging import faults, page_table, residency, working_set
from memoryhub.kernel.paging import page_commands as commands
from memoryhub.kernel.parts import KernelPart
from memoryhub.kernel.state import page_events as events

PART = KernelPart(
    commands={
        commands.CreatePages: page_table.decide_create_pages,
        commands.UpdatePage: page_table.decide_update_page,
        commands.DeletePage: page_table.decide_delete_page,
        commands.MapPage: working_set.decide_map_page,
        commands.EvictPage: working_set.decide_evict_page,
        commands.PinPage: working_set.decide_pin_page,
        commands.UnpinPage: working_set.decide_unpin_page,
        commands.ReferencePages: working_set.decide_reference_pages,
        commands.FaultPage: faults.decide_fault_page,
    },
    upkeep={commands.WriteLevels: page_table.decide_write_levels},
    events={
        events.PageCreated: residency.apply_page_created,
        events.PageUpdated: residency.apply_page_updated,
        events.PageCompressed: residency.apply_page_compressed,
        events.PageMapped: residency.apply_page_mapped,
        events.PageFaulted: residency.apply_page_faulted,
        events.FaultRefused: residency.apply_fault_refused,
        events.PageReferenced: residency.apply_page_referenced,
        events.PageEvicted: residency.apply_page_evicted,
        events.PagesEvicted: residency.apply_pages_evicted,
        events.PageLowered: residency.apply_page_lowered,
        events.PagePinned: residency.apply_page_pinned,
        events.PageUnpinned: residency.apply_page_unpinned,
        events.PageDeleted: residency.apply_page_deleted,
    },
)
