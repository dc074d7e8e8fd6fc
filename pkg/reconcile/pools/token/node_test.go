package token

import (
	"encoding/base64"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The API server decides the lifetime of a token, not the request, and a difference between the
// clocks does not matter.
func TestIssued(t *testing.T) {
	asked := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	answer := func(created, expires time.Time) *authenticationv1.TokenRequest {
		return &authenticationv1.TokenRequest{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)},
			Status:     authenticationv1.TokenRequestStatus{Token: base64.RawURLEncoding.EncodeToString([]byte("t")), ExpirationTimestamp: metav1.NewTime(expires)},
		}
	}
	ahead := asked.Add(5 * time.Hour)
	for name, a := range map[string]*authenticationv1.TokenRequest{
		"a server of another time": answer(ahead, ahead.Add(time.Hour)),
		"a server without a time":  answer(time.Time{}, asked.Add(time.Hour)),
	} {
		got, err := nodeFromResponse(a, "uid", asked)
		if err != nil || !got.Expires.Equal(asked.Add(time.Hour)) {
			t.Errorf("%s: ends at %s (err %v)", name, got.Expires, err)
		}
		if half := got.Renew.Sub(asked); half < 30*time.Minute || half > 32*time.Minute {
			t.Errorf("%s: renewed after %s", name, half)
		}
	}
	if _, err := nodeFromResponse(answer(asked, asked), "uid", asked); err == nil {
		t.Error("a token that ended was accepted")
	}
}
