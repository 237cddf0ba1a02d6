"""How static files are named once they are collected."""

from __future__ import annotations

from whitenoise.storage import CompressedManifestStaticFilesStorage


class HashedModules(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # WhiteNoise has no types
    """Our modules import each other by hashed names too, so that browsers keep them for good and never mix versions.

    Django's own switch for this reads every script, and stumbles over imports in the comments of others' files.
    """

    patterns = (
        *CompressedManifestStaticFilesStorage.patterns,
        (
            "js/*.js",
            (
                (r'(?P<matched>from "(?P<url>\./[^"]+)";)', 'from "%(url)s";'),
                (r'(?P<matched>import "(?P<url>\./[^"]+)";)', 'import "%(url)s";'),
            ),
        ),
    )
