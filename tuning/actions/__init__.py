"""What users have done: every change to stored runs, networks and compilations starts here."""
