package cloudprovider

import (
	"encoding/json"

	"github.com/Masterminds/semver/v3"
)

// The environment variables that replace missing values of azureSpec.
const (
	envAzureTenantID       = "AZURE_TENANT_ID"
	envAzureSubscriptionID = "AZURE_SUBSCRIPTION_ID"
	envAzureClientID       = "AZURE_CLIENT_ID"
	envAzureClientSecret   = "AZURE_CLIENT_SECRET" //nolint:gosec // a name
)

// azureSpec has the fields of the cloudProviderSpec of azure that are used.
type azureSpec struct {
	TenantID              configVarString `json:"tenantID"`
	SubscriptionID        configVarString `json:"subscriptionID"`
	ClientID              configVarString `json:"clientID"`
	ClientSecret          configVarString `json:"clientSecret"`
	ResourceGroup         configVarString `json:"resourceGroup"`
	Location              configVarString `json:"location"`
	VNetName              configVarString `json:"vnetName"`
	SubnetName            configVarString `json:"subnetName"`
	RouteTableName        configVarString `json:"routeTableName"`
	SecurityGroupName     configVarString `json:"securityGroupName"`
	VNetResourceGroup     configVarString `json:"vnetResourceGroup"`
	LoadBalancerSKU       configVarString `json:"loadBalancerSku"`
	AvailabilitySet       configVarString `json:"availabilitySet"`
	AssignAvailabilitySet *bool           `json:"assignAvailabilitySet"`
}

// azureConfig is the configuration. Its fields are in the order of the text.
type azureConfig struct {
	Cloud                      string `json:"cloud"`
	TenantID                   string `json:"tenantId"`
	SubscriptionID             string `json:"subscriptionId"`
	AADClientID                string `json:"aadClientId"`
	AADClientSecret            string `json:"aadClientSecret"`
	ResourceGroup              string `json:"resourceGroup"`
	Location                   string `json:"location"`
	VNetName                   string `json:"vnetName"`
	SubnetName                 string `json:"subnetName"`
	RouteTableName             string `json:"routeTableName"`
	SecurityGroupName          string `json:"securityGroupName"`
	PrimaryAvailabilitySetName string `json:"primaryAvailabilitySetName"`
	VNetResourceGroup          string `json:"vnetResourceGroup"`
	UseInstanceMetadata        bool   `json:"useInstanceMetadata"`
	LoadBalancerSKU            string `json:"loadBalancerSku"`
}

func (s *azureSpec) cloudConfig(_ *semver.Version, r *resolver) string {
	r.lines = true // JSON has an escape for them
	c := azureConfig{
		Cloud:               "AZUREPUBLICCLOUD",
		TenantID:            r.textOrEnv("tenantID", s.TenantID, envAzureTenantID),
		SubscriptionID:      r.textOrEnv("subscriptionID", s.SubscriptionID, envAzureSubscriptionID),
		AADClientID:         r.textOrEnv("clientID", s.ClientID, envAzureClientID),
		AADClientSecret:     r.textOrEnv("clientSecret", s.ClientSecret, envAzureClientSecret),
		ResourceGroup:       r.resolveText("resourceGroup", s.ResourceGroup),
		Location:            r.resolveText("location", s.Location),
		VNetName:            r.resolveText("vnetName", s.VNetName),
		SubnetName:          r.resolveText("subnetName", s.SubnetName),
		RouteTableName:      r.resolveText("routeTableName", s.RouteTableName),
		SecurityGroupName:   r.resolveText("securityGroupName", s.SecurityGroupName),
		VNetResourceGroup:   r.resolveText("vnetResourceGroup", s.VNetResourceGroup),
		UseInstanceMetadata: true,
		LoadBalancerSKU:     r.resolveText("loadBalancerSku", s.LoadBalancerSKU),
	}
	set := r.resolveText("availabilitySet", s.AvailabilitySet)
	if s.AssignAvailabilitySet == nil || *s.AssignAvailabilitySet {
		c.PrimaryAvailabilitySetName = set
	}
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(b)
}
