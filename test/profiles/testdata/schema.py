"""Checks cloud-configs with cloud-init's own schema, many in one process.

Reads JSON from standard input, a list of documents as text, and writes a list of
lists: what is wrong with each, nothing where all is well. cloud-init's package is
found through PYTHONPATH.
"""

import json
import sys

import yaml
from cloudinit.config import schema

# libyaml reads what PyYAML's own parser reads, in a tenth of the time.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def findings(document, whole):
    if not document.startswith("#cloud-config\n"):
        return ["its first line is not #cloud-config"]
    try:
        config = yaml.load(document, Loader=LOADER)
    except yaml.YAMLError as e:
        return ["is no YAML: %s" % e]
    if not isinstance(config, dict):
        return ["is no mapping"]
    try:
        schema.validate_cloudconfig_schema(config, whole, strict=True)
    except schema.SchemaValidationError as e:
        kinds = (("error", e.schema_errors), ("deprecation", e.schema_deprecations))
        return ["%s: %s: %s" % (kind, p[0], p[1]) for kind, problems in kinds for p in problems or []]
    return []


def main():
    # Without jsonschema cloud-init says that everything is valid.
    import jsonschema  # noqa: F401

    whole = schema.get_schema()
    json.dump([findings(d, whole) for d in json.load(sys.stdin)], sys.stdout)


main()
