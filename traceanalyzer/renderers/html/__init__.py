"""Pages that open by double click: one file each, offline, safe to pass on."""
