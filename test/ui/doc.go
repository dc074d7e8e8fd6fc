// Package ui looks at the audit page in a real browser: the pages of the built
// controller and of `osm-gitops ui`, on a real control plane, with nodes that joined
// over several pushes, in light and dark and on a phone, judged by axe-core. So are the
// pages of the documentation, as "make docs" makes them.
//
// Chromium is Debian's, playwright-core and axe-core come from npm by the lock file
// beside this one. Where one of them cannot be had the tests are skipped and say so;
// with CI=true they fail instead. With -update the screenshots of docs/images are
// written.
package ui
