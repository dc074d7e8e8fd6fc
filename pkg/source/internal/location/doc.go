// Package location parses the addresses of repositories, over https and in both forms over
// ssh, and rejects addresses that a program could take for something else. It connects to
// nothing.
//
// Start reading at Parse.
package location
