// Package lint checks profiles before they are merged: whether they are valid for every
// provider, operating system and setting that they support, and what a reviewer would
// object to. It is pure: it turns bytes into findings without network or cluster access, and
// runs programs such as shellcheck only if the caller configures them.
//
// Start with Linter.Run in engine.go; rules.go has all rules with severity and text, config.go
// the file .osm-gitops.yaml. Package mirrored compares downloads with a site's mirrors.
package lint
