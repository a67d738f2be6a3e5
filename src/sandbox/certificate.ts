export { selfSignedCertificate } from '../certificate.ts';
