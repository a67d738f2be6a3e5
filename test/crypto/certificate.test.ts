import { X509Certificate } from 'node:crypto';
import t from 'tap';
import { selfSignedCertificate } from '../../src/crypto/certificate.ts';

t.test('the certificate is for its host, valid now and signed with its own key', async (t) => {
  const now = new Date('2027-03-04T05:06:07Z');
  const { key, cert } = selfSignedCertificate('mx.sandbox.test', now);
  const parsed = new X509Certificate(cert);
  t.equal(parsed.checkHost('mx.sandbox.test'), 'mx.sandbox.test');
  t.equal(parsed.checkHost('other.test'), undefined);
  t.ok(parsed.verify(parsed.publicKey));
  t.equal(parsed.subject, 'CN=mx.sandbox.test');
  t.equal(Date.parse(parsed.validFrom), Date.parse('2027-03-03T05:06:07Z'));
  t.equal(Date.parse(parsed.validTo), Date.parse('2028-03-03T05:06:07Z'));
  t.match(key, /^-----BEGIN PRIVATE KEY-----/);
  t.not(new X509Certificate(selfSignedCertificate('a.test').cert).serialNumber, parsed.serialNumber);
});
