// Package ui tests the audit page in a real browser: the pages of the built controller and of
// `osm-gitops ui`, on a real control plane, with nodes that joined over several pushes, in light
// and dark mode and on a phone, checked by axe-core. It checks the pages of the documentation, the
// output of "make docs", in the same way.
//
// Chromium is Debian's; playwright-core and axe-core are npm packages that the lock file in this
// folder pins. If one of them is not available the tests are skipped with that reason; with CI=true
// they fail. With -update the tests write the screenshots of docs/images.
package ui
