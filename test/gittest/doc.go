// Package gittest is for tests with the real git: work trees and histories that it makes, and packs
// that no git makes.
package gittest
