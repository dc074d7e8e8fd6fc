"""Writes the scripts that cloud-init makes of the runcmd of cloud-configs.

Reads JSON from standard input, a list of documents as text, and writes a list of lists
with one script each. cloud-init's package is found through PYTHONPATH.
"""

import json
import sys

from cloudinit import util

json.dump([[util.shellify(util.load_yaml(d)["runcmd"])] for d in json.load(sys.stdin)], sys.stdout)
