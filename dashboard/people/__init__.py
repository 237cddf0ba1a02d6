"""Who may sign in, how, and what their role and token let them do."""
