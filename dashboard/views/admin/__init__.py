"""Pages for admins, under `/admin/`."""
