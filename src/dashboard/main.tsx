import { createRoot } from 'react-dom/client';
import './styles.css';
import { App } from './app.tsx';
import { nonce } from './browser/nonce.ts';
import { ignoreSecondClicks } from './browser/once.ts';

// Style elements that the component library adds need the nonce too.
Object.assign(globalThis, { __webpack_nonce__: nonce });

ignoreSecondClicks();

const root = document.getElementById('root');
if (root) createRoot(root).render(<App />);
