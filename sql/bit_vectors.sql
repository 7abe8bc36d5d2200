-- bit-vectors.md's statements, in its order: made by "test/setup/examples update".
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS fasted CASCADE;
CREATE EXTENSION fasted;
RESET client_min_messages;

CREATE TABLE images (id int PRIMARY KEY, file text, hash bit(64));
INSERT INTO images VALUES (1, 'beach.jpg', x'e3c1d0c8bf96281d'), (2, 'beach-small.jpg', x'e3c1d0c8bd96681d'),
    (3, 'forest.jpg', x'9d2f61a5c05ab43e'), (4, 'beach-crop.jpg', x'a3c1d0ccbf96291d');

SELECT a.file, b.file, fasted_hamming_distance(a.hash, b.hash) AS bits
FROM images a JOIN images b ON a.id < b.id AND fasted_hamming_distance(a.hash, b.hash) <= 10
ORDER BY bits;

-- keep one of each set
SELECT id, kept FROM fasted_keep_one('images', 'hash', 10, metric => 'hamming') WHERE id <> kept;

CREATE TABLE molecules (id int PRIMARY KEY, smiles text, fingerprint bit(16));
INSERT INTO molecules VALUES (1, 'CCO', '1101100000010010'), (2, 'CCCO', '1101100000010000'),
    (3, 'c1ccccc1', '0000011110000001'), (4, 'Cc1ccccc1', '0000011110100001'), (5, 'CCN', '1001000001010010');

SELECT a.smiles, b.smiles, fasted_jaccard_similarity(a.fingerprint, b.fingerprint) AS tanimoto
FROM molecules a JOIN molecules b ON a.id < b.id AND fasted_jaccard_similarity(a.fingerprint, b.fingerprint) >= 0.7
ORDER BY tanimoto DESC, a.id;

SET client_min_messages = warning;
DROP TABLE images CASCADE;
DROP TABLE molecules CASCADE;
