package identity

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPeopleAreToldWhatARequestWaitsFor(t *testing.T) {
	condition := func(c certificatesv1.RequestConditionType) func(*narrator, *certificatesv1.CertificateSigningRequest) {
		return func(n *narrator, csr *certificatesv1.CertificateSigningRequest) {
			csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: c, Reason: "R", Message: "m"}}
			n.saw(csr)
			n.saw(csr)
		}
	}
	for name, tc := range map[string]struct {
		happens func(*narrator, *certificatesv1.CertificateSigningRequest)
		want    []string // warnings and errors, in order
	}{
		"nothing: the command that approves it": {
			func(*narrator, *certificatesv1.CertificateSigningRequest) {},
			[]string{"waits for approval", "command=kubectl certificate approve csr-1"},
		},
		"approved, not signed": {condition(certificatesv1.CertificateApproved), []string{"approved but not signed"}},
		"denied, said once":    {condition(certificatesv1.CertificateDenied), []string{"was denied"}},
		"failed, said once":    {condition(certificatesv1.CertificateFailed), []string{"the signer says that it failed"}},
		"deleted": {
			func(n *narrator, csr *certificatesv1.CertificateSigningRequest) { n.deleted(csr.Name) },
			[]string{"was deleted"},
		},
		"issued: no warning": {
			func(n *narrator, _ *certificatesv1.CertificateSigningRequest) { n.issued(time.Now().Add(time.Hour)) }, nil,
		},
		"somebody else's request": {
			func(n *narrator, _ *certificatesv1.CertificateSigningRequest) {
				other := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "csr-2"}}
				condition(certificatesv1.CertificateDenied)(n, other)
				n.deleted("csr-2")
			},
			[]string{"waits for approval"},
		},
		"stopped": {func(n *narrator, _ *certificatesv1.CertificateSigningRequest) { n.stop() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				entry, hook := recorded()
				n := &narrator{entry: entry}
				csr := &certificatesv1.CertificateSigningRequest{
					ObjectMeta: metav1.ObjectMeta{Name: "csr-1"},
					Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: "example.com/s"},
				}
				n.requested(csr)
				tc.happens(n, csr)
				time.Sleep(2 * remindAfter)
				synctest.Wait()
				got := lines(hook, logrus.WarnLevel)
				if len(got) != min(1, len(tc.want)) {
					t.Fatalf("%d messages: %q", len(got), got)
				}
				for _, want := range tc.want {
					if !strings.Contains(got[0], want) || !strings.Contains(got[0], "csr=csr-1") {
						t.Errorf("%q lacks %q or the name", got[0], want)
					}
				}
			})
		})
	}
}
