"""Readers and writers of record files, one module per format. No Django and no TVM here."""
