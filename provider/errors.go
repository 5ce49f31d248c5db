package provider

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/burstlet/burstlet/provider/nodeuser"
)

// refused is true for answers that trying again does not change: the credential
// is not accepted, or the server is not the one that the credential trusts.
func refused(err error) bool {
	return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || untrusted(err)
}

func untrusted(err error) bool {
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	return errors.As(err, &verification) || errors.As(err, &authority)
}

// explain says of an error of the first calls to the API server what it is and
// what to do. what is the call, as in "register node a".
func explain(server, node, what string, err error) error {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the API server at %s does not accept this credential (401); "+
			"it may have expired or belong to another cluster: check --kubeconfig: %w", what, server, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: the API server at %s does not allow this (403); the credential must be "+
			"user %s in group %s, or have the rights of a node: check --kubeconfig: %w",
			what, server, nodeuser.Name(node), nodeuser.Group, err)
	case untrusted(err):
		return fmt.Errorf("%s: the API server at %s has a certificate that the kubeconfig does not trust; "+
			"check certificate-authority and --kubeconfig: %w", what, server, err)
	case errors.As(err, &status):
		return fmt.Errorf("%s: the API server at %s answers: %w", what, server, err)
	default:
		return fmt.Errorf("%s: cannot reach the API server at %s; check --kubeconfig and the network: %w",
			what, server, err)
	}
}
