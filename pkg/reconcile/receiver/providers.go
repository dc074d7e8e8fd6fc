package receiver

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
)

// credentialHeaders are the headers that prove who sends a request, by provider.
//
//   - https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries
//   - https://docs.gitlab.com/user/project/integrations/webhooks/
//   - https://docs.gitea.com/usage/repository/webhooks
//   - https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/, and the
//     same header with https://confluence.atlassian.com/bitbucketserver/manage-webhooks-938025878.html
var credentialHeaders = map[string][]string{
	"github":    {"X-Hub-Signature-256"},
	"gitlab":    {"X-Gitlab-Token"},
	"gitea":     {"X-Gitea-Signature"},
	"bitbucket": {"X-Hub-Signature"},
	"generic":   {"Authorization", "X-Signature"},
}

// hasCredential reports whether a request has a provider's signature header.
func hasCredential(provider string, header http.Header) bool {
	return slices.ContainsFunc(credentialHeaders[provider], func(name string) bool { return header.Get(name) != "" })
}

// hasAnyCredential reports whether a request has a signature header of any provider.
func hasAnyCredential(header http.Header) bool {
	for provider := range credentialHeaders {
		if hasCredential(provider, header) {
			return true
		}
	}
	return false
}

// authentic reports whether the sender of a request has the key. It takes the same time
// for all wrong signatures of one length.
func authentic(provider string, key []byte, header http.Header, body []byte) bool {
	if len(key) == 0 {
		return false
	}
	switch provider {
	case "github":
		return isValidPrefixedSignature(header.Get("X-Hub-Signature-256"), key, body)
	case "bitbucket":
		return isValidPrefixedSignature(header.Get("X-Hub-Signature"), key, body)
	case "gitea":
		return isValidSignature(header.Get("X-Gitea-Signature"), key, body)
	case "gitlab":
		return equalConstantTime(header.Get("X-Gitlab-Token"), key)
	case "generic":
		if bearer, ok := strings.CutPrefix(header.Get("Authorization"), "Bearer "); ok {
			return equalConstantTime(bearer, key)
		}
		return isValidPrefixedSignature(header.Get("X-Signature"), key, body)
	}
	return false
}

// isValidPrefixedSignature reports whether a signature is "sha256=" and the right one in hex. No
// other hash is accepted.
func isValidPrefixedSignature(signature string, key, body []byte) bool {
	rest, ok := strings.CutPrefix(signature, "sha256=")
	return ok && isValidSignature(rest, key, body)
}

// isValidSignature reports whether a signature in hex is the right one for a key and a body.
func isValidSignature(signature string, key, body []byte) bool {
	got, err := hex.DecodeString(signature)
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(body)
	return hmac.Equal(got, mac.Sum(nil))
}

// equalConstantTime compares digests, so that the time does not reveal the length of the key.
func equalConstantTime(got string, key []byte) bool {
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256(key)
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
