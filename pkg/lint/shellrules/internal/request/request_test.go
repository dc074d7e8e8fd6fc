package request

import (
	"testing"
)

// The host of a request follows the user info, even if the user is empty.
func TestNearbyBehindUsers(t *testing.T) {
	for url, want := range map[string]bool{
		"http://localhost/x": true, "http://u:p@localhost/x": true, "http://@localhost/x": true, "http://u:p%x@localhost/x": true,
		"http://example.com/x": false, "http://localhost@example.com/x": false, "http://@example.com/x": false,
	} {
		if got := IsLocalOrMetadata(url); got != want {
			t.Errorf("%s: got %t, want %t", url, got, want)
		}
	}
}
