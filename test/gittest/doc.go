// Package gittest is for tests of pkg/source and the packages below it: work trees and
// histories that the real git makes, and packs that no git makes.
package gittest
