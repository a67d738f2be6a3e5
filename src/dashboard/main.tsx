import { createRoot } from 'react-dom/client';
import './styles.css';
import { App } from './app.tsx';
import { nonce } from './nonce.ts';
import { ignoreSecondClicks } from './once.ts';

// What libraries of components add to the page by themselves carries it too.
Object.assign(globalThis, { __webpack_nonce__: nonce });

ignoreSecondClicks();

const root = document.getElementById('root');
if (root) createRoot(root).render(<App />);
