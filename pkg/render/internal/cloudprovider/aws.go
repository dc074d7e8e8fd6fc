package cloudprovider

import "github.com/Masterminds/semver/v3"

// awsSpec has the fields of the cloudProviderSpec of aws that are used.
type awsSpec struct {
	AvailabilityZone configVarString `json:"availabilityZone"`
	VPCID            configVarString `json:"vpcId"`
	SubnetID         configVarString `json:"subnetId"`
}

func (s *awsSpec) cloudConfig(_ *semver.Version, r *resolver) string {
	zone := r.resolveText("availabilityZone", s.AvailabilityZone)
	vpc := r.resolveText("vpcId", s.VPCID)
	subnet := r.resolveText("subnetId", s.SubnetID)
	return "[global]\nZone=" + iniq(zone) + "\nVPC=" + iniq(vpc) + "\nSubnetID=" + iniq(subnet) + "\n"
}
