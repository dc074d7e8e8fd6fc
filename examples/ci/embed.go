// Package ci contains the files that check pull requests of a repository of profiles: for GitHub
// Actions, GitLab CI, pre-commit and plain Git, and the configuration of Renovate. A test runs the
// commands of each. `osm-gitops init` and `import` write them unchanged.
package ci

import "embed"

// Files are the examples by their name in this folder.
//
//go:embed github.yaml gitlab-ci.yml pre-commit pre-commit-config.yaml renovate.json
var Files embed.FS
