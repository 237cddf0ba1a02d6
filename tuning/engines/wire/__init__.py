"""What both ends of a pipe to an engine share: messages, errors, versions. No TVM here, and no Django."""
