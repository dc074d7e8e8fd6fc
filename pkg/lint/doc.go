// Package lint checks profiles before anybody merges them: whether they are right
// for every provider, system and setting they claim, and what in them a reviewer
// would object to. It is pure: bytes in, findings out; no network, no cluster, and
// programs such as shellcheck only where the caller names them.
//
// Start with Linter.Run in engine.go; rules.go has all rules with severity and text, config.go
// the file .osm-gitops.yaml, mirrored.go the comparison of downloads with what a site has mirrored.
package lint
