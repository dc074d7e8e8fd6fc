package desired

import (
	"strings"
	"testing"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// The flag alone can set the server; without any server there is an error.
func TestEndpointOverride(t *testing.T) {
	var nowhere clientcmdapi.Cluster
	if err := (Endpoints{}).applyOverrides(&nowhere); err == nil || !strings.Contains(err.Error(), "has no server") {
		t.Errorf("no server: %v", err)
	}
	if err := (Endpoints{OverrideServer: "https://b:6443"}).applyOverrides(&nowhere); err != nil || nowhere.Server != "https://b:6443" {
		t.Errorf("the flag's server: %+v, %v", nowhere, err)
	}
}
