package attestation

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// Sign wraps a statement in a DSSE envelope, in one line of JSON.
func (k *Key) Sign(ctx context.Context, statement []byte) ([]byte, error) {
	signer, err := dsse.NewEnvelopeSigner(k.signer)
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	envelope, err := signer.SignPayload(ctx, PayloadType, statement)
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	return json.Marshal(envelope)
}
