"""Record files of tuners, one module a format. No Django here, and no TVM."""
