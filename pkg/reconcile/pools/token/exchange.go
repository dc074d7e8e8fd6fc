package token

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// ReplaceAccountTokens replaces the verbatim tokens of a ServiceAccount in cloud-init-settings in a document,
// and reports whether there were any.
func ReplaceAccountTokens(document []byte, account, value string) (replaced []byte, found bool) {
	replaced = webToken.ReplaceAllFunc(document, func(token []byte) []byte {
		// A profile can contain tokens of other accounts, which are not ours to replace.
		if !issuedTo(string(token), account) {
			return token
		}
		found = true
		return []byte(value)
	})
	return replaced, found
}

// webToken is a signed JSON web token, the form of ServiceAccounts' tokens (RFC 7515,
// section 7.1): the first part is an object, so it begins with the base64 of `{"`.
var webToken = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`)

// issuedTo reports whether a token says that it is of an account.
func issuedTo(token, account string) bool {
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		return false
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	err = json.Unmarshal(payload, &claims)
	return err == nil && claims.Subject == "system:serviceaccount:"+api.NamespaceCloudInitSettings+":"+account
}
