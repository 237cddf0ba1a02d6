"""The storage of collected static files: content hashes in their names."""

from __future__ import annotations

from whitenoise.storage import CompressedManifestStaticFilesStorage


class HashedModules(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # WhiteNoise has no types
    """Our modules import each other by hashed names, so that browsers can cache them forever and never mix versions.

    Django's `support_js_module_import_aggregation` isn't used: it reads every script and fails on imports in the comments
    of third-party files.
    """

    patterns = (
        *CompressedManifestStaticFilesStorage.patterns,
        (
            "js/*.js",
            (
                (r'(?P<matched>from "(?P<url>\.\.?/[^"]+)";)', 'from "%(url)s";'),
                (r'(?P<matched>import "(?P<url>\.\.?/[^"]+)";)', 'import "%(url)s";'),
            ),
        ),
    )
