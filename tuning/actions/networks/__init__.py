"""What is done with networks: models are uploaded and deleted, and the tasks of any network extracted."""
