// Package mirror manages bare repositories on disk that are fetched incrementally. A pack
// counts after it was checked and indexed, so that an interrupted fetch changes nothing,
// and damage leads to a new fetch. It does not connect to servers: see Fetch.
//
// Start reading at Mirror.Update.
package mirror
