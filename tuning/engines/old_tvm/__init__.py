"""Programs that run under another interpreter, whose TVM is an old one: Python 3.6, its standard library and TVM."""
