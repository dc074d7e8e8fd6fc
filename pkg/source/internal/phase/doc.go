// Package phase limits the duration of each phase of a request, such as connecting or TLS,
// and knows the current one, which errors name. It connects to nothing itself.
//
// Start reading at Begin.
package phase
